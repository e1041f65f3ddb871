"""Decisions about CertificateSigningRequests."""
