"""The command line: ``scirocco topics``, ``cluster``, ``sample``, ``resume`` and others, a file for each family.

Nothing here is imported by ``import scirocco``, and no command imports JAX before it needs it.
"""
