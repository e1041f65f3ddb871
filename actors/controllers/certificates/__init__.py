"""Controllers of CertificateSigningRequests: csrapproving, csrsigning and csrcleaner.

Approval is a condition and issuing is a field of the status, written by different loops, so that a
request that was denied is never signed.
"""
