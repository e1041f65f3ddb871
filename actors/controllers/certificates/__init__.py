"""Controllers of CertificateSigningRequests: csrapproving, csrsigning and csrcleaner."""
