"""The catalogue of sentences for people, in gettext's form."""
