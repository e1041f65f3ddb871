"""Random draws: generators by name, draws that depend on an instant alone, and orders of arrival."""
