"""The machine under an agent: sandboxes, containers, images, logs, resources."""
