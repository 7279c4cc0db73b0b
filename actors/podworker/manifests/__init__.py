"""Static pods: from files of this node, without the API's say; the API only shows a mirror of each."""
