# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask an engine over HTTP whether it is alive and whether it answers. Standard library only.

http.client is used rather than urllib, since a proxy named in the environment must never stand
between a host and its own engine.
"""

import http.client
import ipaddress
import json


class NotReady(Exception):
    """The engine does not answer yet, or not as it should; the text says how."""


class Refused(Exception):
    """The engine answered in a way that waiting does not mend; the text says how."""


class Engine(object):
    """Where and how an engine is asked."""

    def __init__(self, address, port, key=""):
        self.address = reachable(address)
        self.port = port
        self.key = key

    def call(self, path, body=None, limit=10):
        """Return the answer's text; NotReady where there is none, Refused where it is 4xx."""
        connection = http.client.HTTPConnection(self.address, self.port, timeout=limit)
        try:
            connection.request("POST" if body else "GET", path, _encode(body), self._headers())
            answer = connection.getresponse()
            status, text = answer.status, answer.read().decode("utf-8", "replace")
        except (http.client.HTTPException, OSError) as wrong:
            raise NotReady("%s: %s" % (path, wrong or type(wrong).__name__)) from wrong
        finally:
            connection.close()
        if status != 200:
            said = "%s answered %d: %s" % (path, status, " ".join(text.split())[:300])
            raise (Refused if 400 <= status < 500 else NotReady)(said)
        return text

    def call_json(self, path, body=None, limit=10):
        """Return the decoded answer; NotReady where it is not a JSON object."""
        text = self.call(path, body, limit)
        try:
            answer = json.loads(text)
        except ValueError as wrong:
            raise NotReady("%s: the answer is not JSON: %s" % (path, text[:100])) from wrong
        if not isinstance(answer, dict):
            raise NotReady("%s: the answer is no JSON object: %s" % (path, text[:100]))
        return answer

    def model_ids(self):
        """Return the names under which the engine serves its model."""
        rows = self.call_json("/v1/models").get("data")
        ids = [row["id"] for row in rows or [] if isinstance(row, dict) and "id" in row]
        if not ids:
            raise NotReady("/v1/models names no model")
        return ids

    def one_token(self, model, limit=60):
        """Return the text of a one-token completion; NotReady where there is none."""
        body = {"model": model, "prompt": "1 + 1 =", "max_tokens": 1, "temperature": 0}
        answer = self.call_json("/v1/completions", body, limit)
        try:
            return str(answer["choices"][0]["text"])
        except (KeyError, IndexError, TypeError) as wrong:
            said = str(answer)[:100]
            raise NotReady("/v1/completions: no completion in %s" % said) from wrong

    def ask(self, model="", limit=60):
        """Return (model ids, answer): alive, serving the model, and answering one token."""
        self.call("/health")
        ids = self.model_ids()
        if model and model not in ids:
            raise Refused("the engine serves %s, not %s" % (", ".join(ids), model))
        return ids, self.one_token(model or ids[0], limit)

    def _headers(self):
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = "Bearer " + self.key
        return headers


def _encode(body):
    return None if body is None else json.dumps(body).encode("utf-8")


def reachable(address):
    """Return the address at which the host itself reaches what listens on the given one."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if not parsed.is_unspecified:
        return address
    return "127.0.0.1" if parsed.version == 4 else "::1"
