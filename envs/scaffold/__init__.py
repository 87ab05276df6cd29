"""Makes the files of a world of one's own: a whole world from the toy one, and further tools in it."""
