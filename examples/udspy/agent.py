"""The agent of these examples: it may delete files, after somebody approved that."""

import os
from pathlib import Path

import udspy
from pydantic import Field


@udspy.tool(name="delete_file", description="Deletes a file", require_confirmation=True)
def delete_file(path: str = Field(description="Which file")) -> str:
    Path(path).unlink()
    return f"deleted {path}"


class Work(udspy.Signature):
    """Do what is asked."""

    question: str = udspy.InputField()
    answer: str = udspy.OutputField()


def make_agent() -> udspy.ReAct:
    udspy.settings.configure(
        lm=udspy.LM(
            model=os.environ["MODEL"],
            api_key=os.environ.get("MODEL_KEY", "none"),
            base_url=os.environ.get("MODEL_URL"),
        )
    )
    return udspy.ReAct(Work, tools=[delete_file])
