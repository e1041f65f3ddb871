"""Priority and fairness: classification of requests, and queues of priority levels."""
