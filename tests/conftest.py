from pathlib import Path

import pytest
import torch
from hypothesis import settings

settings.register_profile("holdfast", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("holdfast")
torch.set_num_threads(1)

PUBLISHED = Path(__file__).resolve().parents[2] / "shared" / "data" / "published"


@pytest.fixture
def published() -> Path:
    """The logs published with the paper and by Cohen et al.; they are not part of the repository."""
    if not PUBLISHED.is_dir():
        pytest.skip("the published logs are not here: expected ../shared/data/published beside the checkout")
    return PUBLISHED
