"""Keys of an arm's TLS."""

from __future__ import annotations

from pydantic import Field, model_validator

from loadgen.scenario.base import FilePath, Loc, Model, refuse


class TlsKeys(Model):
    """TLS towards an arm's servers, metrics pages included."""

    ca: FilePath | None = Field(
        None, description="PEM file of the authorities to trust, instead of the public ones (certifi)"
    )
    client_cert: FilePath | None = Field(None, description="PEM file of our own certificate, with its chain")
    client_key: FilePath | None = Field(
        None, description="PEM file of its key, without a password; default: in client_cert"
    )
    verify: bool = Field(True, description="check the server's certificate and name; false is said in every report")

    @model_validator(mode="after")
    def _consistent(self) -> TlsKeys:
        problems: list[tuple[Loc, str]] = []
        if self.client_key is not None and self.client_cert is None:
            problems.append((("client_key",), "needs client_cert"))
        if self.ca is not None and not self.verify:
            problems.append((("ca",), "contradicts verify: false: nothing would be checked against it"))
        refuse(problems)
        return self
