"""What a run says, as typed records: the words of all rooms, and the one place that knows how they are written."""
