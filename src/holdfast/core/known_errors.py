"""What is known about the errors of other libraries: codes and names, with the category of each.

`holdfast.core.error_categories` uses these tables. They need no import of the libraries.
"""

from __future__ import annotations

import errno
from typing import Literal, get_args

ErrorCategory = Literal[
    "authentication",
    "permission",
    "rate_limit",
    "unreachable",
    "timeout",
    "server_error",
    "conflict",
    "step_timeout",
    "constraint",
    "configuration",
    "rejected",
    "invalid",
]
"""The kind of problem that an error is.

authentication  a key, password or token is wrong or missing (HTTP 401)
permission      the service knows who asks, and refuses (HTTP 403), or a quota is used up
rate_limit      the service asks for fewer calls (HTTP 429)
unreachable     the service is away: connection refused or reset, DNS, HTTP 502, 503, 504
timeout         no answer in time
server_error    the service failed (HTTP 500)
conflict        a deadlock, a serialization failure, or a lock that others hold
step_timeout    a step took longer than its `timeout=`
constraint      a constraint of a database was violated
configuration   a setting, a package or a certificate is missing or wrong
rejected        a body raised Reject, or the error is one of Retry(permanent=)
invalid         a body did what no body may do: a value that cannot be kept, a cursor that went back
"""

CATEGORIES: tuple[ErrorCategory, ...] = get_args(ErrorCategory)

RECOVERABLE_CATEGORIES: frozenset[str] = frozenset(
    {"rate_limit", "unreachable", "timeout", "server_error", "conflict", "step_timeout"}
)

HTTP_STATUSES: dict[int, ErrorCategory] = {
    401: "authentication",
    403: "permission",
    407: "authentication",
    408: "timeout",
    429: "rate_limit",
    500: "server_error",
    502: "unreachable",
    503: "unreachable",
    504: "unreachable",
}
SQLSTATES: dict[str, ErrorCategory] = {
    "40": "conflict",
    "55P03": "conflict",
    "57014": "timeout",
    "57P": "unreachable",
    "08": "unreachable",
    "53": "unreachable",
    "28": "authentication",
    "42501": "permission",
    "23": "constraint",
    "3D000": "configuration",
}
"""By the beginning of the SQLSTATE. A longer beginning wins."""
SQLITE_CODES: dict[int, ErrorCategory] = {5: "conflict", 6: "conflict", 19: "constraint"}
"""SQLITE_BUSY, SQLITE_LOCKED and SQLITE_CONSTRAINT."""
ERRNOS: dict[int, ErrorCategory] = {
    errno.ECONNREFUSED: "unreachable",
    errno.ECONNRESET: "unreachable",
    errno.ECONNABORTED: "unreachable",
    errno.ENETUNREACH: "unreachable",
    errno.ENETDOWN: "unreachable",
    errno.ENETRESET: "unreachable",
    errno.EHOSTUNREACH: "unreachable",
    errno.EHOSTDOWN: "unreachable",
    errno.EPIPE: "unreachable",
    errno.ENOTCONN: "unreachable",
    errno.ETIMEDOUT: "timeout",
}
SERVICE_CODES: dict[str, ErrorCategory] = {
    # codes of AWS, in the response of a ClientError
    "Throttling": "rate_limit",
    "ThrottlingException": "rate_limit",
    "ThrottledException": "rate_limit",
    "TooManyRequestsException": "rate_limit",
    "RequestLimitExceeded": "rate_limit",
    "ProvisionedThroughputExceededException": "rate_limit",
    "SlowDown": "rate_limit",
    "BandwidthLimitExceeded": "rate_limit",
    "ExpiredToken": "authentication",
    "ExpiredTokenException": "authentication",
    "InvalidAccessKeyId": "authentication",
    "InvalidClientTokenId": "authentication",
    "UnrecognizedClientException": "authentication",
    "SignatureDoesNotMatch": "authentication",
    "InvalidSignatureException": "authentication",
    "MissingAuthenticationToken": "authentication",
    "AuthFailure": "authentication",
    "AccessDenied": "permission",
    "AccessDeniedException": "permission",
    "UnauthorizedOperation": "permission",
    "ServiceUnavailable": "unreachable",
    "ServiceUnavailableException": "unreachable",
    "InternalError": "server_error",
    "InternalFailure": "server_error",
    "InternalServerError": "server_error",
    "RequestTimeout": "timeout",
    "RequestTimeoutException": "timeout",
    "ConditionalCheckFailedException": "constraint",
    "TransactionConflictException": "conflict",
    # codes of OpenAI
    "insufficient_quota": "permission",
    "invalid_api_key": "authentication",
    # names of the status codes of gRPC
    "UNAVAILABLE": "unreachable",
    "DEADLINE_EXCEEDED": "timeout",
    "RESOURCE_EXHAUSTED": "rate_limit",
    "UNAUTHENTICATED": "authentication",
    "PERMISSION_DENIED": "permission",
    "ABORTED": "conflict",
}

CLASS_NAMES: dict[ErrorCategory, str] = {
    "authentication": """
        AuthenticationError AuthenticationException Unauthorized Unauthenticated UnauthorizedError NotAuthenticated
        NoCredentialsError PartialCredentialsError CredentialRetrievalError TokenRetrievalError
        UnauthorizedSSOTokenError RefreshError DefaultCredentialsError ClientAuthenticationError InvalidPassword
        InvalidAuthorizationSpecification AuthenticationWrongNumberOfArgsError
    """,
    "permission": """
        PermissionDeniedError AuthorizationException AuthorizationError NoPermissionError PermissionDenied Forbidden
    """,
    "rate_limit": """
        RateLimitError TooManyRequests ResourceExhausted TooManyRequestsError
    """,
    "unreachable": """
        gaierror herror SSLError SSLEOFError SSLZeroReturnError IncompleteRead BadStatusLine RemoteDisconnected
        ConnectionError ConnectTimeout ConnectTimeoutError ChunkedEncodingError ProxyError ProtocolError
        NewConnectionError NameResolutionError NetworkError ConnectError ReadError WriteError CloseError
        RemoteProtocolError ClientConnectionError ClientPayloadError ServerDisconnectedError APIConnectionError
        ServiceUnavailableError EndpointConnectionError ConnectionClosedError HTTPClientError
        ResponseStreamingError ServiceRequestError ServiceResponseError ServiceUnavailable BusyLoadingError
        ClusterDownError MasterDownError ReadOnlyError ConnectionDoesNotExistError CannotConnectNowError
        ConnectionFailure AdminShutdown DisconnectionError AutoReconnect ServerSelectionTimeoutError InterfaceError
        OperationalError
    """,
    "timeout": """
        Timeout ReadTimeout ReadTimeoutError TimeoutException WriteTimeout PoolTimeout APITimeoutError TimeoutError
        ServerTimeoutError SocketTimeoutError DeadlineExceeded ConnectionTimeout QueryCanceled
    """,
    "server_error": """
        InternalServerError ServerError
    """,
    "conflict": """
        DeadlockDetected SerializationFailure LockNotAvailable TransactionRollbackError TransactionRollback
        LockError WatchError DeadlockDetectedError SerializationError
    """,
    "constraint": """
        IntegrityError UniqueViolation ForeignKeyViolation NotNullViolation CheckViolation ExclusionViolation
        IntegrityConstraintViolationError DuplicateKeyError
    """,
    "configuration": """
        SSLCertVerificationError CertificateError ClientConnectorCertificateError MissingSchema InvalidSchema
        InvalidURL LocationParseError UnsupportedProtocol NoRegionError NoSuchModuleError ProfileNotFound
        ImproperlyConfigured ConfigurationError
    """,
}
CLASSES: dict[str, ErrorCategory] = {
    name: category for category, names in CLASS_NAMES.items() for name in names.split()
}
"""The category of classes of the packages below, by name."""
PACKAGE_NAMES = """
    socket _socket ssl http urllib sqlite3 requests urllib3 httpx httpx2 httpcore httpcore2 aiohttp openai anthropic
    botocore boto3 google grpc azure cohere mistralai psycopg psycopg2 asyncpg sqlalchemy pymysql MySQLdb mysql oracledb
    redis pymongo elasticsearch elastic_transport opensearchpy qdrant_client
"""
PACKAGES = frozenset(PACKAGE_NAMES.split())
"""The packages whose classes are known by name. A class of the same name elsewhere may mean anything."""
AMBIGUOUS = {
    "sqlite3": ("OperationalError", "InterfaceError"),
    "sqlalchemy": ("OperationalError", "InterfaceError"),
    "asyncpg": ("InterfaceError",),
    "pymysql": ("OperationalError", "InterfaceError"),
    "MySQLdb": ("OperationalError", "InterfaceError"),
    "mysql": ("OperationalError", "InterfaceError"),
}
"""Names that say nothing in these packages: sqlite3 raises an OperationalError for a syntax error too."""
