"""The CronJob loop."""
