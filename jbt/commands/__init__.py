"""One file a `jbt` command: it parses the options, calls the library and prints."""
