"""The APIs of metrics: what they answer, and their OpenAPI documents."""
