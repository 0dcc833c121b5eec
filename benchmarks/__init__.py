"""Measurements, one question a file. Each prints one JSON document; see README.md."""
