"""A pytest plugin for nodes that are this machine (`-p lab.path_alone`): tools are looked for on their PATH alone.

The usual folders of tools are this machine's own, and what is installed there is no part of a test. What the inventory
names is found as ever.
"""

from __future__ import annotations

from nodegate.toolbox import toolbox

toolbox.USUAL_FOLDERS = ()  # type: ignore[attr-defined, assignment]
