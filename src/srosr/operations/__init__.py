"""What commands and the server do alike with a model and samples: read them, check them, decide; without printing."""
