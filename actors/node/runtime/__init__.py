"""The machine under an agent: sandboxes, containers, images and logs."""
