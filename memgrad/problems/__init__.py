"""What is optimised, separate from how: objectives, models, data sets. Nothing here knows of memory."""
