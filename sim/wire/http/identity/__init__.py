"""The user of a request: certificates, credentials, impersonation, and the right to send it."""
