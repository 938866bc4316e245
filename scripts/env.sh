# Sourced by the other scripts: run in the repository, with its own .venv, trusting the certificates the system trusts.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset VIRTUAL_ENV
export UV_PROJECT_ENVIRONMENT=.venv UV_PYTHON_DOWNLOADS=never
for certificates in "${SSL_CERT_FILE:-}" "${PIP_CERT:-}" /etc/ssl/certs/ca-certificates.crt; do
    if [ -f "$certificates" ]; then
        export SSL_CERT_FILE=$certificates
        break
    fi
done
