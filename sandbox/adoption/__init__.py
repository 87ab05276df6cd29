"""Foreign images as cells: any local Linux image gets the supervisor and an interpreter of its own, and is tried before it is used.

- `source` looks at the image and says what a cell does not take over from it.
- `build` derives the image; its tag is a hash of the image's id and of all that is added.
- `trial` starts the derived image as a cell of each tier and runs a part of the cell contract.
- `history` looks into its git repositories for what an agent is not to find: commits after the one that is checked out.
- `adopted` reads at run time what adoption found, from the derived image's labels.
- `bundle` runs inside the build: it copies the interpreter, with its own dynamic loader, so that musl and `scratch` images work too.
"""
