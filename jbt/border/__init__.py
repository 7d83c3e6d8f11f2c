"""What stands between jbt and the outside: files, streams, exit codes, reports, figures."""
