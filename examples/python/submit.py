"""Submits a task over REST, follows its events, and prints how it ended. Needs Python 3.9, and nothing else.

    API_URL=http://127.0.0.1:8422 API_TOKEN=... python3 submit.py DIRECTORY "Explain what this package does."

The token needs the scopes read and submit: `linesman token create example --scope read,submit`.
"""

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid

URL = os.environ["API_URL"].rstrip("/") + "/v1"


def request(path, body=None, **headers):
    headers["Authorization"] = "Bearer " + os.environ["API_TOKEN"]
    data = None
    if body is not None:
        data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
    return urllib.request.urlopen(urllib.request.Request(URL + path, data, headers), timeout=60)


def answer(path, body=None, **headers):
    """Returns the JSON of an answer, and repeats the request if there is none."""
    for attempt in range(6):
        try:
            with request(path, body, **headers) as response:
                return json.load(response)
        except urllib.error.HTTPError as e:
            problem = json.load(e)
            if e.code != 503 and not problem.get("retryable"):  # as the first request with the key is carried out
                sys.exit(f"refused: {problem['detail']}")
        except (OSError, http.client.HTTPException) as e:  # the connection
            print(f"trying again: {e}", file=sys.stderr)
        time.sleep(2**attempt)
    sys.exit("linesman does not answer")


def submit(directory, prompt):
    # Without an answer the task may have been accepted: a repeated request with the same key starts nothing again.
    return answer("/runs", {"task": prompt, "workingDir": directory}, **{"Idempotency-Key": str(uuid.uuid4())})["run"]


def events(run):
    """Yields every event once, also if the connection breaks: the server resumes after the last id."""
    last = None
    while True:
        try:
            headers = {"Accept": "text/event-stream"}
            if last:
                headers["Last-Event-ID"] = last
            with request(f"/runs/{run}/events", **headers) as stream:
                if stream.status == 204:  # the run has ended, and all its events were read
                    return
                position = kind = None
                for line in stream:
                    name, _, value = line.decode().rstrip("\n").partition(": ")
                    if name == "id":
                        position = value
                    elif name == "event":
                        kind = value
                    elif name == "data" and line.endswith(b"\n"):  # else the connection broke within the line
                        last = position
                        yield kind, json.loads(value)
                        if kind == "completion":
                            return
        except urllib.error.HTTPError as e:
            if e.code != 503:
                sys.exit(f"refused: {json.load(e)['detail']}")
        except (OSError, http.client.HTTPException) as e:
            print(f"connecting again: {e}", file=sys.stderr)
        time.sleep(1)


def main():
    run = submit(sys.argv[1], sys.argv[2])
    for kind, event in events(run):
        print(kind, event.get("text") or event.get("message") or "")
    done = answer(f"/runs/{run}/wait")
    print(f"{run}: {done['state']}: {done.get('summary', '')}")
    sys.exit(done["state"] != "completed")


main()
