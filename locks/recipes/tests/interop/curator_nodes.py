"""kazoo's locks with the node names of Curator. kazoo's own have others, and each side ignores the other's."""

from kazoo.recipe.lock import Lock


class Mutex(Lock):
    _NODE_NAME = "lock-"
    _EXCLUDE_NAMES = ["lock-"]


class Write(Lock):
    _NODE_NAME = "__WRIT__"
    _EXCLUDE_NAMES = ["__WRIT__", "__READ__"]


class Read(Lock):
    _NODE_NAME = "__READ__"
    _EXCLUDE_NAMES = ["__WRIT__"]


LOCKS = {"mutex": Mutex, "write": Write, "read": Read}
