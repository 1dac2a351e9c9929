"""--kube-context: the cluster of the kubeconfig that is asked, for this process and those that it starts."""

import argparse
import os

VARIABLE = "NODEGATE_KUBE_CONTEXT"
OPTION = "--kube-context"
HELP = f"the context of the kubeconfig ({VARIABLE})"


class Context(argparse.Action):
    """Remembers the context in the environment."""

    def __call__(self, _parser: object, namespace: argparse.Namespace, values: object, _option: object = None) -> None:
        """See `argparse.Action`."""
        os.environ[VARIABLE] = str(values)
        setattr(namespace, self.dest, values)
