"""Pneumonia from chest X-rays: a decision rule with a guarantee, end to end."""
