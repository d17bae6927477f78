"""Lines of every day that hold no secret: nothing in them is masked.

A mask takes Approve from the chats wherever it is not proven to cover data, so one that covers a
program, a folder, a host or a word of prose costs people's time.
"""

from __future__ import annotations

import json

from gateway.domain.redaction import holds_secrets, mask
from tests.grants.everyday import pairs

LINES = r"""
docker run -u 1000:1000 -v /srv:/srv img curl https://h.example
docker run --rm -u 1000:1000 curlimages/curl curl https://h.example/x
docker run -p 8080:80 mysql
docker run -p 3306:3306 mysql:8
docker run --name db -e X=y mysql -p 3306
mysql -p
mysql -u root -p shop
mysql -h db -P 3306 -u app -p shop
mysql -uroot -p < dump.sql
mysqldump -u root -p shop > dump.sql
mysql --protocol=tcp -e 'select 1'
mysql -e 'select 1' && mkdir -pv build
mysqladmin -u root status; mkdir -p build/x
systemctl restart mysql && mkdir -pm755 /srv/db
apt-get install mysql-client && cp -pr a b
sudo service mysql stop; tar -xpf backup.tar
ssh -p 22 host
ssh -p22 host
grep -u x file
grep -rn password: src
grep -rn "password" src
git commit -m "pwd=/srv/app"
git commit -m "fix: token handling in parser"
git commit -m "Use token authentication everywhere"
git commit -m "basic authentication support"
git commit -m "Basic documentation for everybody"
git commit -m "bearer authentication instead of sessions"
--token-file path
deploy --token-file /run/token --password-stdin
docker login --username bot --password-stdin registry.example
pwd=/srv/app make
pwd=$(pwd)
PWD=/srv/app ls
OLDPWD=/srv/app cd -
cd $PWD && pwd
{"pwd": "/srv/app"}
{"pwd": "src/app"}
"Basic information about everything"
the token bucket algorithm
token classification model
token-classification
python -m pytest -k token --pass-through
pytest --pass=all
ansible-playbook site.yml --ask-pass --become
ansible-playbook site.yml --vault-password-file vault.txt
openssl rsa -passin file:key.txt -in k.pem
openssl enc -aes-256-cbc -pass file:pw.txt -in a
openssl enc -aes-256-cbc -pass env:PW -in a
curl -U https://h.example
curl -u bot https://h.example
curl -sS https://h.example:8443/x
curl -b cookies.txt https://h.example
curl --cookie cookies.txt --cookie-jar jar.txt https://h.example
curl https://h.example | docker run -i -u 1000:1000 img
curl -fsS https://h.example && docker run -u 1000:1000 img
curl -fsS https://h.example && rsync -u host:/srv/a b
curl -fsS https://h.example; sort -u host:list
wget https://h.example/a.tgz && chown -R 1000:1000 a
wget https://h.example/a.tgz && sudo -u www-data:run ls
http GET h.example/a -b name=value
git log --author=ann --pretty=oneline
git checkout -b fix-password-reset
git branch -u origin/main
git push -u origin main
git push -u git@h.example:team/x.git main
kubectl create secret generic db --from-file=password.txt
kubectl get secret db-password -o yaml
kubectl create secret generic regcred --from-file=a=b
kubectl get secrets --all-namespaces
docker build --secret id=npmrc .
docker build --secret id=npmrc,src=.npmrc .
docker build --secret type=file,id=x .
aws secretsmanager get-secret-value --secret-id prod/db
gh secret set NAME --body-file x
gh secret list --env prod
gh auth token
vault kv get secret/app/config
vault token lookup
npm token list
pip install tokenizers==0.19.1
max_tokens: 100000
max_tokens=4096
"total_tokens": 1234567
num_tokens=1000000
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
tokenizer: bert-base-uncased
token: str
token: string | undefined
def f(password: str, token: Optional[str]) -> None:
def login(password: SecretStr):
password: string;
const password = document.getElementById("password").value
const token = await getToken()
const token = req.headers.authorization
const apiKey = process.env.API_KEY
api_key = os.environ["API_KEY"]
api_key=os.getenv("X")
password = getpass.getpass()
password=settings.DB_PASSWORD
password = request.form.get("password")
secret = secrets.token_hex(16)
token = parser.next_token()
if token == "identifier":
password == confirm
secretName: db-credentials
secretKeyRef: name
secret_name = "prod-db"
password_hash = hash(x)
passwordless: enabled
private_key: Path
access_key_id: x
PASSWORD_MIN_LENGTH=12
PASSWORD_FILE=/run/secrets/x
DB_PASSWORD_FILE=/run/secrets/x
https://h.example/tokens?page=2
https://h.example:8080/path
https://h.example/a?sig=1
https://user@h.example/
ssh://git@h.example:2222/x.git
rsync -a user@host:/srv/ .
scp -P 22 a user@host:b
import key-0123456789
docker pull img@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
pip install pypi-simple-repository-tools
pip install pypi-attestations
cat task-key-list.txt
make risk-assessment-of-the-deployment
python sk-learn-example-classification.py
pip install sk-video
set -o pipefail -u
useradd -p x bob
sqlite3 db "select * from token"
psql -U app -h db -c "select token from t"
psql -U app:x
sudo -u postgres psql
crontab -u bob -l
terraform apply -var-file=secrets.tfvars
terraform plan -var password=var.db
sops -d secrets.yaml
export TOKEN_PATH=/x
chmod 600 key.pem
find . -name "*.token" -type f
find . -path "*/secret/*" -print
jq .token config.json
jq -r '.access_token' token.json
sed -i s/password/passphrase/ README.md
sed -n '/token/p' a.txt
awk -F: '{print $1}' /etc/passwd
getent passwd bob
cat /etc/passwd
passwd --status bob
echo "Password: "
read -s -p "Password: " x
read -sp Password: pass
Authorization: none
authorization: required
Authorization rules
authorization = RBAC
authorization: enabled
authorization.k8s.io/v1
spec.authorization.mode: Webhook
mongod --auth --authorization enabled
Cookie:
Set cookie: yes
cookie_name=sid
x-api-key: required
{"token": true}
{"tokens": [1,2]}
secrets: inherit
permissions: id-token: write
id-token: write
git-token: none
token: write
tokenType: bearer
token_type=Bearer
grant_type=password&x=y
--pass 1
ffmpeg -i a -pass 1 -an -f null
ffmpeg -i a -pass 2 b.mp4
ffmpeg -pass 1 -passlogfile x
hashcat --pass-length 5
--secret-name prod-db
gcloud run deploy x --update-secrets=A=b:latest
aws configure get aws_access_key_id
az keyvault secret show --name x --vault-name y
curl -H "Accept: application/json" https://h.example/api/token/refresh
curl -X POST https://h.example/oauth/token -d grant_type=client_credentials
curl -d token_type_hint=access_token https://h.example
curl -u "$USER:$PASS" https://h.example
curl -u $USER:$PASS https://h.example
curl -H "Authorization: Bearer $TOKEN" https://h.example
curl -H "Authorization: token $GITHUB_TOKEN" https://h.example
mysql -p$MYSQL_PWD shop
mysql -p"$DB_PASSWORD" shop
deploy --token $TOKEN
deploy --token "$TOKEN"
deploy --token=${TOKEN}
deploy --password "$(cat /run/pw)"
sshpass -e ssh host
sshpass -f pw.txt ssh host
sshpass -p "$PW" ssh host
sshpass -f pw.txt ssh -p22 host
sshpass -e ssh -p 2222 host
sshpass -e rsync -pr a b
sshpass -f /run/pw scp -pr a host:b
ansible all --ask-pass hosts.ini
ansible-playbook --ask-become-pass site.yml
pg_dump --no-password shop
gh auth login --with-token < token.txt
answered by token:benjamin
curl h.example; run -u a:shutdown-now
curl 'https://h.example' && docker run -u 1000:1000 img
docker run --name mysql -p8080:80 img
connect(password=password)
connect(host, password=self.password, api_key=api_key)
pwd = os.getcwd()
token: CancellationToken
token: AuthToken | null
apiKey: import.meta.env.VITE_KEY
git commit -m 'Add secret: rotate quarterly'
next_token: abcdef1234
"nextToken": "abcdef1234"
"secretId": "abcdef-1234"
password_length = 123456
gh workflow run x --secret=my-secret-name
echo "Password: " && read -s pw
fetch(u, {credentials: 'include'})
fn f(token: &'static str, x: u32)
const { password, name } = req.body
password = data['password']
password: this.form.value.password
password: ${{ secrets.DB_PASSWORD }}
const token: string = await getToken()
cache_key = 'user:42:abc'
foreign_key='users.id'
author: ann12345
mapping: abc12345
public_key: ssh-ed25519 AAAA1
wget -q h.example/a.zip -P downloads
kubectl create configmap a --from-literal=k=value123
ssh-keygen -t ed25519 -N '' -f k
ldapsearch -x -W -b dc=example
echo done | sudo tee /etc/x
az account show -p subscription
""".strip().split("\n")
LISTS = [
    ["sh", "-c", "curl h.example && docker run -u 1000:1000 img"],
    ["bash", "-lc", "curl h.example | sort -u a:bcde"],
    ["apt-get", "install", "curl", "mysql-client", "-y"],
    ["sshpass", "-f", "pw.txt", "ssh", "-p22", "h.example"],
    ["psql", "--no-password", "shop"],
]


def test_lines_of_every_day_are_shown_whole() -> None:
    """As they are, as the command of a call on a card, and in the audit."""
    assert len(LINES) >= 150
    for line in LINES:
        call = {"command": line, "user": "1000:1000"}
        shown = [
            line,
            json.dumps(call),
            json.dumps(call, indent=2),
            json.dumps([line, "-u", "a:b"]),
        ]
        assert [text for text in shown if holds_secrets(text)] == []
        assert mask(call) == call


def test_words_of_every_day_are_shown_whole() -> None:
    """A list is one command; what stands in one of its words is another one."""
    for words in LISTS:
        assert mask(words) == words
        for indent in (None, 2):
            assert not holds_secrets(json.dumps(words, indent=indent)), words


def test_calls_of_the_corpus_are_shown_whole() -> None:
    """What agents send all day, with what should be asked about among it."""
    calls = [
        call
        for group in ("next", "ask")
        for pair in pairs(group)
        for call in (pair.first, pair.next_one)
    ]
    texts = {json.dumps(call, ensure_ascii=False) for call in calls}
    assert len(texts) > 500
    assert [text for text in texts if holds_secrets(text)] == []
