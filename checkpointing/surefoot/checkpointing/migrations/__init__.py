"""Numbered SQL files, applied in order; a file that was released is never changed."""
