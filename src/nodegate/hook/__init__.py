"""What a scheduler calls on a node before, after and between jobs: it acts on the verdict of `nodegate bootcheck`."""
