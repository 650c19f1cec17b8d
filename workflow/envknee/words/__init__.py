"""All English about results: sentences from numbers and enums, for people. Nothing reads a sentence again."""
