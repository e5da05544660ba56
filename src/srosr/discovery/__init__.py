"""New classes among rejected samples: groups that belong together, found without labels."""
