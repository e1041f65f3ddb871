"""Components that run alone, in processes of their own."""
