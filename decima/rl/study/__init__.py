"""What studies of schedulers share, whatever a job is: settings, streams, models, commands."""
