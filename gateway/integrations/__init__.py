"""Code that runs beside an agent's host and asks for it. It loads the agent's side alone.

Begin reading at the module of the host; its page is in `docs/integrations`.
"""
