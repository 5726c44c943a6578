"""One module for each command. The commands of a group are in a folder with its name."""
