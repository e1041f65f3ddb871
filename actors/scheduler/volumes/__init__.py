"""The volumes of pods as the scheduler sees them, chooses them, and has them bound."""
