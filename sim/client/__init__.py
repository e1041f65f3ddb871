"""What every API client is made of: client, informers, work queues, event recorder, leader election."""
