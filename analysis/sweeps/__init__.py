"""Reports of files: the plans of `replayer simulate`, and the searches of `replayer autoscale`."""
