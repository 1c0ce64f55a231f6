"""A program that needs an agent twice, and reads the answers as the contract says.

    program.py DIR PROMPT1 PROMPT5 [--resume]

It keeps its state in DIR/.state.json, writes a request, and exits with 42.
Started again with --resume it takes the response and goes on. It exits with 0
once both phases have their answers, which it then prints as one JSON array,
and with 1 where a response is not what the contract says.
"""

import json
import sys
import uuid
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Optional

NEEDS_AGENT = 42


@dataclass(kw_only=True)
class AgentResponse:
    """The nine fields: one too many or too few is a TypeError."""

    request_id: str
    version: str
    status: str
    response: Optional[str]
    error_message: Optional[str]
    error_type: Optional[str]
    created_at: str
    duration_seconds: float
    metadata: dict


def ask(directory, phase, prompt):
    """Writes a request in place, as write_text does: readers may see half of it."""
    request = {
        "request_id": str(uuid.uuid4()),
        "version": "1.0",
        "phase": phase,
        "phase_name": f"phase_{phase}",
        "agent_name": "architectural-reviewer",
        "prompt": prompt,
        "timeout_seconds": 120,
        "created_at": datetime.now(timezone.utc).isoformat(),
        "context": {"phase": phase},
        "model": None,
    }
    path = directory / f".agent-request-phase{phase}.json"
    path.write_text(json.dumps(request, indent=2), encoding="utf-8")
    return request["request_id"]


def load(directory, phase, request_id):
    """Reads a response, checks it, and removes it."""
    path = directory / f".agent-response-phase{phase}.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    response = AgentResponse(**data)
    assert response.request_id == request_id, "the response to another request"
    assert response.version == "1.0"
    assert response.status in ("success", "error", "timeout"), response.status
    created = datetime.fromisoformat(response.created_at)
    assert created.tzinfo is not None, response.created_at
    assert type(response.duration_seconds) is float, response.duration_seconds
    assert type(response.metadata) is dict
    assert path.stat().st_mode & 0o777 == 0o600, oct(path.stat().st_mode)
    if response.status == "success":
        assert type(response.response) is str
        assert response.error_message is None and response.error_type is None
        result = response.response
        try:
            result = json.loads(result)  # the second level, where the agent said JSON
        except json.JSONDecodeError:
            pass
    else:
        assert response.response is None
        assert type(response.error_message) is str and type(response.error_type) is str
        result = {"error_type": response.error_type, "error_message": response.error_message}
    path.unlink()
    return result


def main(directory, prompts, resume):
    path = directory / ".state.json"
    state = {"results": [], "waiting": None}
    if resume:
        state = json.loads(path.read_text(encoding="utf-8"))
        state["results"].append(load(directory, *state["waiting"]))
    done = len(state["results"])
    if done == len(prompts):
        print(json.dumps(state["results"]))
        return 0
    phase = (1, 5)[done]
    state["waiting"] = (phase, ask(directory, phase, prompts[done]))
    path.write_text(json.dumps(state), encoding="utf-8")
    return NEEDS_AGENT


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:4], "--resume" in sys.argv))
