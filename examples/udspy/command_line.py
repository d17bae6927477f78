"""An agent on the command line: `python command_line.py "Delete old.txt"`. It waits for people."""

import asyncio
import sys

from agent import make_agent

from gateway.integrations.frameworks.udspy import Refused, forward

try:
    print(asyncio.run(forward(make_agent(), question=sys.argv[1])).answer)
except Refused as refusal:  # somebody stopped the turn
    sys.exit(str(refusal))
