"""Why there is no test cluster."""


class ClusterError(Exception):
    """The cluster could not be brought up or down; the message says where to look."""


class ClusterUnavailableError(ClusterError):
    """This machine cannot have the cluster: no root, no apt-get, or no packages. Tests skip with the message."""
