"""The parts that all kinds of study share: asking, running, reading and exporting one, and the search for kinds."""
