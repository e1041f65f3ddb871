"""Priority and fairness: classification of requests, and queues of priority levels.

A schema classifies a request into a flow of a priority level; a level has seats, and queues that a
flow shares with few others, so that one flow cannot occupy them all.
"""
