import os, pathlib, typer
pathlib.Path("serve.toml").write_text("port = 1\npassages = 2\nseconds = 3.5\nname=['x','y']\n")
os.environ["RAG_DENOISE_CONFIG"]="serve.toml"; os.environ["RAG_DENOISE_PASSAGES"]="20"; os.environ["RAG_DENOISE_PORT"]="10"
from denoise_core.cli import app
c=typer.main.get_command(app("serve")).commands["serve"]
print(c.make_context("serve",["--port","100"]).params)
print(c.make_context("serve",["--port","100","--name","b"]).params["name"])
os.environ["RAG_DENOISE_NAME"]="a b"
print(c.make_context("serve",[]).params["name"])
for bad in ["potr=1\n"]:
    pathlib.Path("serve.toml").write_text(bad)
    try: c.make_context("serve",[])
    except Exception as e: print(type(e), e)
