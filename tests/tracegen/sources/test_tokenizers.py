"""Tokenizers: bundled ones count as their library does, directories load, other names are refused."""

import json
from pathlib import Path

import pytest

from tracegen.errors import InputError
from tracegen.sources import tokenizers as tokens

TEXTS = ["", " ", "hello world", "né 😀 中文 हिन्दी", "<s>[INST] x [/INST]", "a" * 5000, "def f(x):\n    return x\n"]


@pytest.mark.parametrize("name", tokens.list_bundled())
def test_bundled_tokenizers_count_as_their_library_does(name: str) -> None:
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    loaded = tokens.load_tokenizer(name)
    library = Tekkenizer.from_file(tokens.list_bundled()[name])
    assert loaded.count(TEXTS) == [len(library.encode(text, bos=False, eos=False)) for text in TEXTS]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A word-level tokenizer as transformers saves it."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast

    model = Tokenizer(WordLevel({"[UNK]": 0, "hello": 1}, unk_token="[UNK]"))
    model.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=model, unk_token="[UNK]").save_pretrained(str(tmp_path))
    return tmp_path


def test_a_local_directory_loads(directory: Path) -> None:
    loaded = tokens.load_tokenizer(str(directory))
    assert loaded.count(["hello there you", "", "hello"]) == [3, 0, 1]
    assert loaded.name == str(directory)
    assert tokens.load_tokenizer(str(directory)).digest == loaded.digest != tokens.load_tokenizer("tekken").digest


def test_a_directory_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="tekken_240911"):
        tokens.load_tokenizer(str(tmp_path))


def test_a_tokenizer_that_needs_its_own_code_is_refused_without_a_question(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.input", lambda _: "y")
    (directory / "evil.py").write_text(f"open({str(directory / 'ran')!r}, 'w')\nclass Evil: pass\n")
    config = {"auto_map": {"AutoTokenizer": ["evil.Evil", None]}, "tokenizer_class": "Evil"}
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    (directory / "tokenizer.json").unlink()
    with pytest.raises(InputError, match="tekken_240911"):
        tokens.load_tokenizer(str(directory))
    assert not (directory / "ran").exists()


def test_a_name_that_was_not_downloaded_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="hf download nosuch/model"):
        tokens.load_tokenizer("nosuch/model")
    assert capfd.readouterr().err == ""
