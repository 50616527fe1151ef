"""What draws of partitions say: a point partition, how sure it is, which rows belong together."""

from scirocco.partitions.ball import CredibleBall, credible_ball
from scirocco.partitions.losses import binder, co_clustering, expected_loss, variation_of_information
from scirocco.partitions.search import PointPartition, point_partition
from scirocco.partitions.view import ClusterView, cluster_view

__all__ = [
    "ClusterView", "CredibleBall", "PointPartition", "binder", "cluster_view", "co_clustering", "credible_ball",
    "expected_loss", "point_partition", "variation_of_information",
]  # fmt: skip
