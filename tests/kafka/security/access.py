"""Creates SCRAM users and ACLs on a broker: `access.py BROKERS < task.json`.

The task is {"passwords": {user: password}, "allow": [[user, resource, name, operation], …]} with the resources "topic",
"group" and "transactional_id". A name that ends with `*` is a prefix. Prints nothing; fails with a traceback.
"""

import json
import sys

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

ITERATIONS = 4096


def credential(user, password):
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
    return UserScramCredentialUpsertion(user, info, password.encode())


def acl(user, kind, name, operation):
    pattern = ResourcePatternType.PREFIXED if name.endswith("*") else ResourcePatternType.LITERAL
    return AclBinding(
        ResourceType[kind.upper()],
        name.removesuffix("*"),
        pattern,
        f"User:{user}",
        "*",
        AclOperation[operation.upper()],
        AclPermissionType.ALLOW,
    )


def main(brokers):
    task = json.load(sys.stdin)
    admin = AdminClient({"bootstrap.servers": brokers})
    futures = {}
    if task.get("passwords"):
        credentials = [credential(user, password) for user, password in task["passwords"].items()]
        futures |= admin.alter_user_scram_credentials(credentials)
    if task.get("allow"):
        futures |= admin.create_acls([acl(*entry) for entry in task["allow"]])
    for future in futures.values():
        future.result(timeout=20)


if __name__ == "__main__":
    main(sys.argv[1])
