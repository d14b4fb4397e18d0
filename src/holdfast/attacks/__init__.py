"""Attacks: how far the average can be pushed down in fact, beside how far it certainly cannot be."""

from holdfast.attacks.attack import Attack
from holdfast.attacks.attacked import Aim, Attacked, attack, attack_many

__all__ = ["Aim", "Attack", "Attacked", "attack", "attack_many"]
