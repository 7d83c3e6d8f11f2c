"""The border of jbt: files, streams, options, exit codes, reports, figures."""
