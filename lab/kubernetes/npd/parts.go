//go:build parts

// What is built here, so that go.mod keeps what it needs.
package parts

import _ "k8s.io/node-problem-detector/cmd/nodeproblemdetector"
