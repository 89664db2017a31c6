"""Parts shared by the studies of schedulers: settings, streams, models, commands."""
